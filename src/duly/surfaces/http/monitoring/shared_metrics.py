"""Metrics shared between the processes of one server, so that each can answer for all."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from prometheus_client.metrics_core import Metric

from duly.surfaces.process.shared_memory import Slot

Sample = tuple[str, dict[str, str], float]


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A metric as it is passed between processes."""

    name: str
    text: str
    kind: str
    samples: list[Sample]


decode = msgspec.msgpack.Decoder(list[Family]).decode
encode = msgspec.msgpack.Encoder().encode


class SharedMetrics:
    """Publishes the metrics of this process, and reads those of the others."""

    def __init__(self, page: Slot) -> None:
        self._page = page

    def publish(self, families: Iterable[Metric]) -> None:
        """Publish the metrics of this process."""
        published = [
            Family(
                each.name,
                each.documentation,
                each.type,
                [(one.name, one.labels, one.value) for one in each.samples],
            )
            for each in families
        ]
        self._page.write(encode(published))

    def others(self) -> list[Metric]:
        """The metrics of the other processes."""
        return [_metric(each) for page in self._page.others() for each in decode(page)]


def merged(families: Iterable[Metric]) -> list[Metric]:
    """Each metric once, with the samples of all processes."""
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
