"""The figures of all processes at one port, whichever of them is asked."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from prometheus_client.metrics_core import Metric

from duly.surfaces.process.shared_memory import Slot

Sample = tuple[str, dict[str, str], float]


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A metric as it goes from one process to another."""

    name: str
    text: str
    kind: str
    samples: list[Sample]


decode = msgspec.msgpack.Decoder(list[Family]).decode
encode = msgspec.msgpack.Encoder().encode


class Siblings:
    """The others, by what they wrote on the board a moment ago."""

    def __init__(self, page: Slot) -> None:
        self._page = page

    def tell(self, families: Iterable[Metric]) -> None:
        """Write down how this one stands."""
        told = [
            Family(
                each.name,
                each.documentation,
                each.type,
                [(one.name, one.labels, one.value) for one in each.samples],
            )
            for each in families
        ]
        self._page.write(encode(told))

    def told(self) -> list[Metric]:
        """How the others stand."""
        return [_metric(each) for told in self._page.others() for each in decode(told)]


def merged(families: Iterable[Metric]) -> list[Metric]:
    """Each metric once, with the samples of all."""
    found: dict[str, Metric] = {}
    for each in families:
        if each.name in found:
            found[each.name].samples += each.samples
        else:
            found[each.name] = each
    return list(found.values())


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.text, family.kind)
    for name, labels, value in family.samples:
        metric.add_sample(name, labels, value)
    return metric
