"""Export models in the file formats of general POMDP solvers."""

from rewardmix.interop.pomdp import export_pomdp, pomdp_lines
from rewardmix.interop.pomdpx import export_pomdpx, pomdpx_lines

__all__ = ["export_pomdp", "export_pomdpx", "pomdp_lines", "pomdpx_lines"]
