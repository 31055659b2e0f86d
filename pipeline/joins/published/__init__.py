"""The papers' cost models as they are printed, one file a join: to be put beside ours of `cost/`.

Symbols and equation numbers are the papers', seconds and bytes the units. No join asks these files for anything.
"""
