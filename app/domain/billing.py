"""What is billed beside the hours of the instances that train."""

from dataclasses import dataclass
from decimal import Decimal

_ZERO = Decimal(0)
_HOURS_PER_MONTH = Decimal(730)


@dataclass(frozen=True, slots=True)
class Extras:
    """Further charges of a training, in the currency of its price.

    Attributes
    ----------
    other_nodes, other_node_per_hour
        Nodes that host no worker (a head, a parameter server), and what an hour of one costs.
    storage_gb, storage_per_gb_month
        Gigabytes kept while the training lasts; a month is 730 hours.
    platform_per_instance_hour
        The fee of a managed platform for each instance and hour.
    egress_gb, egress_per_gb
        Gigabytes that leave the cloud once, at the end.
    """

    other_nodes: int = 0
    other_node_per_hour: Decimal = _ZERO
    storage_gb: Decimal = _ZERO
    storage_per_gb_month: Decimal = _ZERO
    platform_per_instance_hour: Decimal = _ZERO
    egress_gb: Decimal = _ZERO
    egress_per_gb: Decimal = _ZERO

    @property
    def storage_per_hour(self) -> Decimal:
        """What an hour of the storage costs."""
        return self.storage_gb * self.storage_per_gb_month / _HOURS_PER_MONTH

    @property
    def once(self) -> Decimal:
        """What is charged once, however long the training lasts."""
        return self.egress_gb * self.egress_per_gb

    def per_hour(self, instances: int) -> Decimal:
        """Return what an hour of everything but the instances' own price costs."""
        return (
            self.other_nodes * self.other_node_per_hour
            + self.storage_per_hour
            + instances * self.platform_per_instance_hour
        )


NO_EXTRAS = Extras()
