"""The Kubernetes manifests on a real cluster: ``python -m tests.cluster``."""
