"""fsck: find damage, judge which versions and objects it affects, and advise the next step.

This package owns the codes of findings, and all rules that involve several files. It changes a catalog only to
acknowledge findings.
"""
