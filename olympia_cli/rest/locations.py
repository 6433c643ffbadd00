"""Where tables may be. A client names locations that the server then reads and writes with its own rights."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.errors import InvalidLocation
from olympia_cli.iceberg.locations import Place, place_of
from olympia_cli.rest.failures import Failure, bad_request, forbidden


def check_location(location: str, allowed: Sequence[str] | None, what: str) -> None:
    """Refuse a location that is not below one of those that are allowed; None allows all."""
    if not location.strip("/"):
        raise bad_request(f"{what} is none")
    try:
        place = _folder(location)
    except InvalidLocation as error:
        raise bad_request(f"{what}: {error.message}") from None
    if allowed is None:
        return
    if ".." in place.path.split("/") or not any(_is_below(place, root) for root in allowed):
        raise forbidden(f"{what} is outside of what you may use here")


def is_allowed(location: str, allowed: Sequence[str] | None) -> bool:
    """Whether `check_location` has nothing against it."""
    try:
        check_location(location, allowed, "it")
    except Failure:
        return False
    return True


def _is_below(place: Place, root: str) -> bool:
    top = _folder(root)
    inside = not top.path or place.path == top.path or place.path.startswith(top.path + "/")
    return place.store == top.store and inside


def _folder(location: str) -> Place:
    """The place of a folder or file; a bucket itself is the folder of everything in it."""
    bare = location.rstrip("/")
    scheme, separator, rest = bare.partition("://")
    if separator and rest and "/" not in rest and scheme != "file":
        place = place_of(bare + "/x")
        return Place(place.store, "")
    return place_of(bare or "/.")
