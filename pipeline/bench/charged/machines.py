"""What the papers' experiments ran on: a disk of `pipeline/master/disks.py`, and what the processor takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.joins.cost.accounting import AsPublished
from pipeline.joins.cost.lookups import Blocks
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.joins.published import hybridjoin, meshjoin, xhybridjoin
from pipeline.joins.published import unit_costs as published
from pipeline.master.disks import DISKS, Disk


def processor(*, c_S: float, c_A: float, c_E: float, c_H: float, c_O: float, c_F: float = 0.0) -> UnitCosts:
    """Only what the papers' equations name takes any time. They print no number of it: see MACHINES."""
    return UnitCosts(loop=0.0, c_K=0.0, c_P=0.0, c_F=c_F, c_S=c_S, c_A=c_A, c_E=c_E, c_H=c_H, c_O=c_O)


@dataclass(frozen=True)
class Machine:
    """What a paper's experiments ran on."""

    disk: Disk
    processor: UnitCosts  # of it, those that are no reads

    def unit_costs(self, row_bytes: int, pool_bytes: int = 0, chained: bool = False) -> UnitCosts:
        """The same numbers, as the cost models ask for them."""
        disk = self.disk
        block = max(disk.page_bytes, row_bytes)
        look_up = Line(0.0, disk.seek + block * disk.byte)
        return replace(
            self.processor,
            lookup=look_up,
            overlapped=look_up,  # one disk: connections do not make it faster
            page=Line(disk.seek, row_bytes * disk.byte),
            scan=Line(disk.request, row_bytes * disk.byte),
            borders=8 * disk.byte,
            blocks=Blocks(
                rows=max(1, disk.page_bytes // row_bytes),
                seek=disk.seek,
                transfer=block * disk.byte,
                pooled=pool_bytes // disk.page_bytes,
                chained=chained,
            ),
        )

    def as_published(self) -> published.UnitCosts:
        """The same numbers, as the papers' own equations ask for them: c_IO of the reads of a scan."""
        cpu = self.processor
        c_IO = published.Disk(self.disk.request, self.disk.byte)
        return published.UnitCosts(c_IO, c_E=cpu.c_E, c_S=cpu.c_S, c_A=cpu.c_A, c_H=cpu.c_H, c_O=cpu.c_O)


# Fitted: 26.38 us a sale in all, with the disk of the same name (see there). Its results at z_R = 1, 156 a sale and
# still "a minimum rate of 9,000", leave at most 0.4 us a result. Of the rest only the sum is known. What a probe costs
# is in the disk's byte.
_PENTIUM_4_IN_2007 = processor(c_S=8.66e-6, c_A=8.66e-6, c_E=8.66e-6, c_H=0.0, c_O=0.4e-6)
# Declared: 5 us a sale, for Java's Multi-Hash-Map on "Pentium-IV 2x2.13GHz".
_PENTIUM_4_IN_2011 = processor(c_S=0.5e-6, c_A=1.5e-6, c_E=1.5e-6, c_H=0.5e-6, c_O=1.5e-6, c_F=0.5e-6)
# Declared: 2 us a sale on "Pentium-i5".
_I5_IN_2013 = processor(c_S=0.2e-6, c_A=0.6e-6, c_E=0.6e-6, c_H=0.2e-6, c_O=0.6e-6, c_F=0.2e-6)

_PROCESSORS = {
    "meshjoin-icde2007": _PENTIUM_4_IN_2007,
    # What a row costs is in the byte, of which REQUEST_BYTES were fitted.
    "meshjoin-default-vs-optimal-2010": replace(_PENTIUM_4_IN_2011, c_H=0.0),
    "hybridjoin-2011": _PENTIUM_4_IN_2011,
    "x-hybridjoin-kais2013": _PENTIUM_4_IN_2011,
    "cmeshjoin-cikm2013": _I5_IN_2013,
}
MACHINES = {paper: Machine(disk, _PROCESSORS[paper]) for paper, disk in DISKS.items()}


def _of_meshjoin(paper: meshjoin.Setting) -> AsPublished:
    return AsPublished(v_S=paper.v_S, f=paper.f, pointer=paper.ptr, copied=True)


# How each paper counts memory: its "50 MB" are these bytes. Rows take v_R, which the table has. cmeshjoin-cikm2013 has
# MESHJOIN's 20 and 4 bytes, and no fudge factor: that of the same authors' 2010 is taken. "The stream buffer is only a
# small buffer" there, and in 2011 and KAIS 2013 "not included", being 0.05 MB: it is left out.
ACCOUNTINGS = {
    "meshjoin-icde2007": _of_meshjoin(meshjoin.ICDE2007),
    "meshjoin-default-vs-optimal-2010": _of_meshjoin(meshjoin.DEF2010),
    "hybridjoin-2011": AsPublished(hybridjoin.HYBRIDJOIN2011.v_S, pointer=hybridjoin.HYBRIDJOIN2011.node),
    "x-hybridjoin-kais2013": AsPublished(xhybridjoin.KAIS2013.v_S, pointer=xhybridjoin.KAIS2013.node),
    "cmeshjoin-cikm2013": replace(_of_meshjoin(meshjoin.DEF2010), copied=False),
}
