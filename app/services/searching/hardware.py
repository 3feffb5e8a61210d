"""The hardware that a search names, in the names that were measured."""

from collections.abc import Collection, Iterable, Sequence

from app.domain.errors import AmbiguousGpuError, Fault, InvalidRequestError, UnknownGpuError
from app.domain.recommendations import Search
from app.pricing.gpus import gpu_key, resolve_gpu
from app.pricing.price_index import gpu_names
from app.pricing.resolution import PriceBook
from app.services.served_regressors import ServedRegressor
from app.services.tables.implied_gpus import Hardware, implied_gpu


def hardware_of(
    search: Search,
    measured: Sequence[Hardware],
    served: ServedRegressor | None,
    book: PriceBook,
) -> list[Hardware]:
    """Return the pairs of GPU type and instance type that a search names, each once.

    A measured name brings its measured partners; an instance type that is on sale brings its GPU.
    Where nothing is named, all measured hardware counts that the regressor knows.

    Parameters
    ----------
    search
        The search.
    measured
        The pairs that runs have.
    served
        The regressor, None where none is published.
    book
        Tells the GPUs of an instance type that was not measured.

    Raises
    ------
    InvalidRequestError
        If none of the instance types has one of the GPU types.
    """
    if search.instance_types:
        known_gpus = _known_gpus(measured, served)
        pairs = [
            pair
            for name in search.instance_types
            for pair in _of_instance(name, measured, known_gpus, book)
        ]
        matching = [pair for pair in pairs if _has_gpu(pair, search.gpu_types, book)]
        if not matching:
            raise _nothing_in_common(search)
        return _distinct(matching, measured)
    if search.gpu_types:
        pairs = [pair for name in search.gpu_types for pair in _of_gpu(name, measured, book)]
        return _distinct(pairs, measured)
    return _distinct([pair for pair in measured if _is_known(pair, served, book)], measured)


def _is_known(pair: Hardware, served: ServedRegressor | None, book: PriceBook) -> bool:
    """Whether a regressor takes the name of a GPU, which runs after its fit may have brought."""
    gpu, instance = pair
    if served is None or gpu is None:
        return True
    try:
        resolve_gpu(gpu, served.gpu_types or (), book.gpu_types_of(instance) if instance else ())
    except (AmbiguousGpuError, UnknownGpuError):
        return False
    return True


def _known_gpus(
    measured: Iterable[Hardware], served: ServedRegressor | None
) -> Collection[str] | None:
    """Return the GPU types of the runs, None where no run names one."""
    if served is not None:
        return served.gpu_types
    return [gpu for gpu, _instance in measured if gpu is not None] or None


def _of_instance(
    name: str, measured: Sequence[Hardware], known_gpus: Collection[str] | None, book: PriceBook
) -> list[Hardware]:
    folded = name.casefold()
    matching = [pair for pair in measured if pair[1] and pair[1].casefold() == folded]
    return matching or [(implied_gpu(name, known_gpus, book), name)]


def _of_gpu(name: str, measured: Sequence[Hardware], book: PriceBook) -> list[Hardware]:
    """Return the measured hardware with a GPU, whatever the spelling of its name.

    A board (`V100-32GB`) is not among runs on its family (`V100`), which may be another board,
    unless the price of their machine names it. It is then asked like any GPU that no run has.
    """
    wanted = set(gpu_names(name))
    matching = [pair for pair in measured if wanted & _boards_of(pair, book)]
    return matching or [(name, None)]


def _boards_of(pair: Hardware, book: PriceBook) -> set[str]:
    """Return the folded names of the GPUs of measured hardware, as its runs and prices name them.

    Prices only tell which board of the runs' GPU it is.
    """
    gpu, instance = pair
    if gpu is None:
        return set()
    sold = {name.casefold() for name in book.gpu_types_of(instance)} if instance else set()
    return {gpu_key(gpu)} | (sold & set(gpu_names(gpu)))


def _has_gpu(pair: Hardware, wanted: Sequence[str], book: PriceBook) -> bool:
    """Whether hardware has one of the wanted GPUs; it may, where its GPU is unknown."""
    gpu, instance = pair
    known = {gpu} if gpu is not None else book.gpu_types_of(instance or "")
    names = {alias for name in wanted for alias in gpu_names(name)}
    return not (names and known) or any(names & set(gpu_names(known_gpu)) for known_gpu in known)


def _nothing_in_common(search: Search) -> InvalidRequestError:
    instances, gpus = ", ".join(search.instance_types), ", ".join(search.gpu_types)
    message = f"None of the instance types searched ({instances}) has one of the GPUs ({gpus})."
    fault = Fault(
        message,
        "Name the GPU types that they have, or leave one of the two lists out.",
        field="search.gpu_types",
        value=list(search.gpu_types),
        pointer="/search/gpu_types",
    )
    return InvalidRequestError(message, [fault])


def _distinct(pairs: Iterable[Hardware], measured: Collection[Hardware]) -> list[Hardware]:
    """Return each piece of hardware once: spellings of one that no run has are one."""
    found: dict[Hardware, Hardware] = {}
    for pair in pairs:
        gpu, instance = pair
        key = (gpu and gpu_key(gpu), instance and instance.casefold())
        found.setdefault(pair if pair in measured else key, pair)
    return list(found.values())
