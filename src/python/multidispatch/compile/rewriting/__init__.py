"""Rewriting: changes of a graph of ATen that leave its results as they are. `rewrite` has the table of them. Masks have three
modules: `uniform` knows tensors of one number, `lines` those that follow from an element's place, `causal` asks both."""
