"""The NASRec search spaces: rules, architectures, their names, costs and files. See `space` for the map."""

from recnas.space.nasrec.space import NasrecSpace as NasrecSpace
