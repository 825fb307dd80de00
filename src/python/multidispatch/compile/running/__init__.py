"""Running: trees become kernels (`groups`), kernels become texts (`formula`), and `plan` puts them into one sequence,
which C calls."""
