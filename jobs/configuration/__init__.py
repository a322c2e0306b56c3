"""Configuration as code: what is set of agents, intake and money, as one file that can be applied.

A file names sections, their entries and their members (`sections.py` declares them, mostly out of
the fields of the operators' verbs).  It is read (`files.py`), compared with what is and applied in
one transaction through the same transitions as the console and the commands (`plan.py`), and
written (`written.py`).
"""
