# SPDX-License-Identifier: GPL-2.0-or-later
"""What the shell completes: names of files that people write, of runs, and of boots."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from lab.base import toml
from lab.inputs import kconfig, machine_model, profile, series, topology, workload
from lab.measure.boot_store import BootStore
from lab.measure.matrix import SCHEDULERS
from lab.report import record_store

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
# So many boots are offered, the newest.
_BOOTS = 50


def _of(names: Callable[[click.Context], Iterable[str]]) -> Completion:
    """A completion by names that begin as what was typed."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names(context) if name.startswith(begun)]

    return complete


def _claims(context: click.Context) -> list[str]:
    """The claims of the series that are named already, or of all."""
    named = context.params.get("names") or series.known()
    return list(dict.fromkeys(claim for name in named for claim in series.get(name).all_claims))


def _boots(_: click.Context) -> list[str]:
    folders = sorted((BootStore().folder / "boots").glob("*/"), reverse=True)
    return ["last", *(folder.name for folder in folders[:_BOOTS])]


a_series = _of(lambda _: series.known())
claims = _of(_claims)
topologies = _of(lambda _: topology.known())
schedulers = _of(lambda _: SCHEDULERS)
workloads = _of(lambda _: workload.known())
profiles = _of(lambda _: toml.names(profile.FOLDER))
fragments = _of(lambda _: [kconfig.SMALL, *toml.names(kconfig.FRAGMENTS, ".config")])
machines = _of(lambda _: toml.names(machine_model.FOLDER))
boots = _of(_boots)
runs = _of(lambda _: ["last", *reversed(record_store.known(BootStore().folder))])
