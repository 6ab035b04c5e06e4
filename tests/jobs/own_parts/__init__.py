"""A plugin of somebody else: four files, none of them in the package."""

from . import model, proxy, searcher, space  # noqa: F401
