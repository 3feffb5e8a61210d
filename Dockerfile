# Build: the environment with the locked dependencies and the service, its bytecode compiled, and
# without the installers, which no running container needs.
FROM python:3.11.14-slim-bookworm AS build
# requirements-ray.lock builds an image for fitters and nodes of a Ray cluster,
# requirements-platform.lock one with OpenTelemetry traces and OIDC tokens.
ARG REQUIREMENTS=requirements.lock
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/trainfare
COPY requirements.lock requirements-ray.lock requirements-platform.lock ./
RUN /opt/trainfare/bin/python -m pip install --require-hashes -r ${REQUIREMENTS}
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
COPY migrations ./migrations
COPY models ./models
RUN /opt/trainfare/bin/python -m pip install --no-deps --no-build-isolation . \
    && /opt/trainfare/bin/python -m pip uninstall --quiet --yes setuptools pip \
    && /opt/trainfare/bin/python -m compileall -q /opt/trainfare/lib

# Run: only Python, LightGBM's OpenMP runtime and the environment. The root file system may be
# read-only, since all data is in the volume.
FROM python:3.11.14-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 trainfare \
    && useradd --uid 10001 --gid trainfare --no-create-home --shell /usr/sbin/nologin trainfare \
    && install -d -o trainfare -g trainfare /var/lib/trainfare
COPY --from=build /opt/trainfare /opt/trainfare
ENV PATH=/opt/trainfare/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    TRAINFARE_DATA_DIR=/var/lib/trainfare \
    TRAINFARE_HOST=0.0.0.0 \
    TRAINFARE_PORT=8000 \
    TRAINFARE_LOG_FORMAT=json
WORKDIR /var/lib/trainfare
VOLUME /var/lib/trainfare
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# Without http_proxy, which an engine may set in every container.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('localhost', int(os.environ['TRAINFARE_PORT']), timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["trainfare"]
CMD ["serve", "--with-fitter", "--migrate"]
