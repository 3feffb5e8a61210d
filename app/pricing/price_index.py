"""Lookup of prices by the hardware that they are for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.domain.configurations import Configuration
from app.domain.prices import Price
from app.pricing.catalogue import built_in_prices
from app.pricing.gpus import gpu_key, variants_of


@dataclass(frozen=True, slots=True)
class PriceIndex:
    """Prices by instance type and by GPU, with case-folded names."""

    by_instance: Mapping[str, Sequence[Price]]
    by_gpu: Mapping[str, Sequence[Price]]

    @classmethod
    def of(cls, prices: Iterable[Price]) -> "PriceIndex":
        """Return the index of prices."""
        by_instance: defaultdict[str, list[Price]] = defaultdict(list)
        by_gpu: defaultdict[str, list[Price]] = defaultdict(list)
        for price in prices:
            if price.instance_type is not None:
                by_instance[price.instance_type.casefold()].append(price)
            if price.gpu_type is not None:
                by_gpu[price.gpu_type.casefold()].append(price)
        return cls(dict(by_instance), dict(by_gpu))

    def find(self, configuration: Configuration) -> list[Price]:
        """Return the prices of the instance type, or of the GPU if no instance type is named."""
        gpus = gpu_names(configuration.gpu_type)
        if configuration.instance_type is None:
            return [price for name in gpus for price in self.by_gpu.get(name, ())]
        prices = self.by_instance.get(configuration.instance_type.casefold(), ())
        return [
            price
            for price in prices
            if not gpus or price.gpu_type is None or price.gpu_type.casefold() in gpus
        ]


def gpu_names(gpu_type: str | None) -> tuple[str, ...]:
    """Return the folded names under which a GPU may be priced: its own and its variants'.

    Examples
    --------
    >>> gpu_names("V100")
    ('v100', 'v100-16gb', 'v100-16gb-pcie', 'v100-32gb', 'v100-32gb-pcie')
    """
    if gpu_type is None:
        return ()
    names = (name.casefold() for name in variants_of(gpu_type))
    return tuple(dict.fromkeys((gpu_key(gpu_type), *names)))


@cache
def catalogue_index() -> PriceIndex:
    """Return the index of the built-in catalogue."""
    return PriceIndex.of(built_in_prices())
