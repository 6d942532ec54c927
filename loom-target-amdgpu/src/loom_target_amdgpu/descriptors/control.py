"""Barriers, messages and explicit waits (language reference, part 3, section 14.3)."""

from __future__ import annotations

from typing import Final

CONTROL: Final = """
34Aa | s_barrier | | | | barrier class=barrier |
* | s_sendmsg | | m0:m | message | side map=message |
* | s_sethalt | | | reason | side map=reason |
* | s_trap | | | trapid | side map=trapid |
34Aa | s_waitcnt | | | vmcnt? lgkmcnt? | barrier map=waitcnt class=wait |
Aa | s_set_inst_prefetch_distance | | | distance | side map=distance |
Aa | s_waitcnt_vscnt | | | vscnt | barrier map=null,vscnt class=wait |
Aa | s_waitcnt_depctr | | | depctr | barrier map=depctr class=wait |
AaB | s_wait_idle | | | | barrier class=wait |
B | s_barrier_signal_all | | | | barrier isa=s_barrier_signal form=imm map=all class=barrier |
B | s_barrier_wait_all | | | | barrier isa=s_barrier_wait map=all class=barrier_wait |
B | s_wait_loadcnt | | | loadcnt | barrier map=loadcnt class=wait |
B | s_wait_storecnt | | | storecnt | barrier map=storecnt class=wait |
B | s_wait_dscnt | | | dscnt | barrier map=dscnt class=wait |
B | s_wait_kmcnt | | | kmcnt | barrier map=kmcnt class=wait |
B | s_wait_alu | | | depctr | barrier map=depctr class=wait |
# own
* | s_sleep | | | imm16! | side |
"""
