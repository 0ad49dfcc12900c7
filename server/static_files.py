"""The files under `/static/`: scripts and styles. Their URLs carry a digest, so that browsers cache them until they change."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .error_responses import response_of
from .refusal import Refusal

TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
"""The served file types, by the end of the name; other files of the folder are not served."""
DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A served file: its bytes, its media type, and the digest in its URL."""

    content: bytes
    media_type: str
    digest: str


@cache
def static_files() -> dict[str, StaticFile]:
    """The served files, by name."""
    found = {}
    for file in (files("holdfast.server") / "static").iterdir():
        media_type = TYPES.get(file.name[file.name.rfind(".") :])
        if media_type is not None:
            content = file.read_bytes()
            found[file.name] = StaticFile(content, media_type, hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH])
    return found


def static_url(name: str, root: str = "") -> str:
    """The URL of a file, which changes with its content; `root` is the path under which the application is mounted."""
    return f"{root}/static/{name}?v={static_files()[name].digest}"


def route() -> Route:
    """The route of all static files."""
    return Route("/static/{name}", _static, methods=["GET"])


async def _static(request: Request) -> Response:
    file = static_files().get(request.path_params["name"])
    if file is None:
        return response_of(Refusal(404, "not_found", "there is no such file"))
    asked = request.query_params.get("v")
    kept = "public, max-age=31536000, immutable" if asked == file.digest else "no-cache"
    headers = {"ETag": f'"{file.digest}"', "Cache-Control": kept}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
