"""What is wrong with a catalog: findings, and the verdict on which versions are whole.

It owns the codes and the rules that take more than one file. It only reads; export, repair and status ask it.
"""
