"""What is billed besides the hours of the instances that train."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

HOURS_PER_MONTH: Final = Decimal(730)
"""Hours of an average month, by which storage is billed."""

SECONDS_PER_HOUR: Final = Decimal(3600)
_ZERO = Decimal(0)
_EXACT: Final = Context(prec=80)


@dataclass(frozen=True, slots=True)
class Extras:
    """Further charges of a training, in the currency of its price.

    Attributes
    ----------
    other_nodes, other_node_per_hour
        Nodes that host no worker (a head, a parameter server), and the cost of an hour of one.
    storage_gb, storage_per_gb_month
        Gigabytes kept while the training lasts; a month is 730 hours.
    platform_per_instance_hour
        The fee of a managed platform per instance and hour.
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
        """The cost of an hour of storage."""
        return self.storage_gb * self.storage_per_gb_month / HOURS_PER_MONTH

    @property
    def once(self) -> Decimal:
        """What is charged once, however long the training lasts."""
        return self.egress_gb * self.egress_per_gb

    def per_hour(self, instances: int) -> Decimal:
        """Return the hourly cost of everything but the instances themselves."""
        return (
            self.other_nodes * self.other_node_per_hour
            + self.storage_per_hour
            + instances * self.platform_per_instance_hour
        )


NO_EXTRAS = Extras()


@dataclass(frozen=True, slots=True)
class Serverless:
    """How functions are billed: each worker is one function at a time.

    Attributes
    ----------
    memory_gb
        Gigabytes per worker.
    per_gb_second, per_call
        Cost of a GB-second and of a call.
    max_call_s
        The longest duration of a call in seconds; longer work consists of several calls, one after
        another. None if a worker is a single call.
    step_s
        Each call is billed in whole steps of this many seconds.
    free_gb_seconds, free_calls
        The rest of a free allowance.
    """

    memory_gb: Decimal
    per_gb_second: Decimal
    per_call: Decimal = _ZERO
    max_call_s: Decimal | None = None
    step_s: Decimal = Decimal("0.001")
    free_gb_seconds: Decimal = _ZERO
    free_calls: int = 0

    @property
    def per_hour(self) -> Decimal:
        """The cost of an hour of one worker, without calls and allowance."""
        per_second = _EXACT.multiply(self.memory_gb, self.per_gb_second)
        return _EXACT.multiply(per_second, SECONDS_PER_HOUR)

    def usage(
        self, seconds: Decimal, workers: int, least_s: Decimal = _ZERO
    ) -> tuple[Decimal, int]:
        """Return the GB-seconds and calls billed for a duration on some workers.

        For each worker the seconds of its calls are billed, and at least `least_s`.

        Examples
        --------
        >>> terms = Serverless(Decimal("0.5"), Decimal("0.00001667"), max_call_s=Decimal(900))
        >>> gb_seconds, calls = terms.usage(Decimal("1000.0001"), 2)
        >>> str(gb_seconds), calls
        ('1000.0010', 4)
        """
        full_calls, rest_s = 0, seconds
        if self.max_call_s is not None:
            full_calls = (
                int(_EXACT.divide(seconds, self.max_call_s).to_integral_value(ROUND_CEILING)) - 1
            )
            rest_s = seconds - full_calls * self.max_call_s
        billed = full_calls * self._rounded_up(self.max_call_s or _ZERO) + self._rounded_up(rest_s)
        gb_seconds = _EXACT.multiply(max(billed, least_s) * workers, self.memory_gb)
        return (
            max(gb_seconds - self.free_gb_seconds, _ZERO),
            max((full_calls + 1) * workers - self.free_calls, 0),
        )

    def _rounded_up(self, seconds: Decimal) -> Decimal:
        steps = _EXACT.divide(seconds, self.step_s).to_integral_value(ROUND_CEILING)
        return steps * self.step_s
