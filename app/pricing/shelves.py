"""What is on sale in one place, and the cheapest way to host workers on it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from app.domain.configurations import Configuration
from app.domain.prices import Price
from app.pricing.offers import Lot, Offer
from app.pricing.packing import LARGEST_MIXED, pack

Rules = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Shelf:
    """Single instances of one place, purchase, currency and billing rule, which may be mixed.

    The currency is that in which they are listed: one exchange rate holds for all of them. Each
    includes its further charges, since the fee of a platform counts in comparisons.

    Attributes
    ----------
    singles
        One instance of each type.
    sizes, mixable
        Number of workers, and cheapest type, of each size that is small enough to be mixed.
    """

    singles: tuple[Offer, ...]
    sizes: tuple[int, ...]
    mixable: tuple[Offer, ...]

    @classmethod
    def of(cls, singles: Sequence[Offer]) -> "Shelf":
        """Return the shelf of some instances."""
        cheapest: dict[int, Offer] = {}
        for offer in sorted(singles, key=lambda single: single.machine_per_hour):
            cheapest.setdefault(_workers_hosted(offer.price), offer)
        mixable = {size: offer for size, offer in cheapest.items() if size <= LARGEST_MIXED}
        return cls(tuple(singles), tuple(mixable), tuple(mixable.values()))

    def offer_for(self, configuration: Configuration) -> Offer | None:
        """Return the cheapest offer by the hour that hosts all workers, None if there is none.

        Sizes are mixed if the configuration leaves the instances open, by naming neither their type
        nor their number.
        """
        is_open = configuration.instance_type is None and configuration.nodes is None
        if is_open and len(self.sizes) > 1:
            large = [
                single for single in self.singles if _workers_hosted(single.price) > LARGEST_MIXED
            ]
            uniform, mixed = (
                _uniform_offer(large, configuration),
                self._mixed_offer(configuration.workers),
            )
            return mixed if uniform is None else min(uniform, mixed, key=cheapest_first)
        return _uniform_offer(self.singles, configuration)

    def undercuts(self, other: "Shelf") -> bool:
        """Return whether this shelf can replace each instance of another one at no higher cost.

        It must do so by a single instance where the cost is equal. Then the other shelf is never
        needed where sizes may be mixed.
        """
        mine, theirs = self.singles[0].price, other.singles[0].price
        if not self.sizes or mine.currency != theirs.currency or rules_of(mine) != rules_of(theirs):
            return False
        costs = [offer.machine_per_hour for offer in self.mixable]
        for single in other.singles:
            packed = pack(self.sizes, costs, _workers_hosted(single.price))
            if (packed.cost, packed.instances) > (single.machine_per_hour, 1):
                return False
        return True

    def _mixed_offer(self, workers: int) -> Offer:
        costs = [offer.machine_per_hour for offer in self.mixable]
        counts = pack(self.sizes, costs, workers).counts
        lots = [
            (size * count, Lot(single.price, count), single)
            for size, count, single in zip(self.sizes, counts, self.mixable, strict=True)
            if count
        ]
        lots.sort(key=lambda entry: entry[0], reverse=True)
        (_, main, single), *others = lots
        return replace(single, instances=main.instances, others=tuple(lot for _, lot, _ in others))


def _uniform_offer(singles: Iterable[Offer], configuration: Configuration) -> Offer | None:
    """Return the cheapest offer by the hour with instances of a single type."""
    best: tuple[Decimal, int] | None = None
    chosen: Offer | None = None
    for single in singles:
        count = _instances(configuration, single.price)
        if count is None:
            continue
        key = single.machine_per_hour * count, count
        if best is None or key < best:
            best, chosen = key, single
    if chosen is None or best is None or best[1] == chosen.instances:
        return chosen
    return replace(chosen, instances=best[1])


def cheapest_first(offer: Offer) -> tuple[Decimal, int]:
    """Return the sort key of offers: the cost of an hour, then the number of instances."""
    return offer.per_hour, offer.total_instances


def shelves_of(singles: Iterable[Offer]) -> list[Shelf]:
    """Return the shelves of single instances."""
    shelves: defaultdict[Rules, list[Offer]] = defaultdict(list)
    for offer in singles:
        price = offer.price
        place = *price.place, offer.listed_currency, price.instance_type is None
        shelves[place + rules_of(price)].append(offer)
    return [Shelf.of(offers) for offers in shelves.values()]


def undercut_none(shelves: Iterable[Shelf]) -> list[Shelf]:
    """Return the shelves that no other shelf undercuts."""
    kept: list[Shelf] = []
    for shelf in shelves:
        if not any(other.undercuts(shelf) for other in kept):
            kept = [other for other in kept if not shelf.undercuts(other)]
            kept.append(shelf)
    return kept


def rules_of(price: Price) -> Rules:
    """Return the rules by which a duration is billed."""
    return price.minimum_billed_s, price.billing_step_s, price.serverless


def _workers_hosted(price: Price) -> int:
    """Return how many workers an instance hosts: one if it has no or an unknown number of GPUs."""
    return 1 if price.serverless is not None else price.gpu_count or 1


def _instances(configuration: Configuration, price: Price) -> int | None:
    if price.instance_type is None or price.serverless is not None:
        # A price of GPUs or functions, not of machines: only the number of workers counts.
        return -(-configuration.workers // _workers_hosted(price))
    return instances_needed(configuration, price.gpu_count)


def instances_needed(configuration: Configuration, gpu_count: int | None) -> int | None:
    """Return how many instances a configuration occupies, None if the workers do not fit.

    `gpu_count` is None or 0 for an instance with an unknown number of GPUs or none; it hosts one
    worker, unless the configuration gives the number of nodes.
    """
    nodes, workers = configuration.nodes, configuration.workers
    if nodes is None:
        return -(-workers // gpu_count) if gpu_count else workers
    if configuration.instance_type is None and gpu_count and nodes * gpu_count < workers:
        return None
    return nodes
