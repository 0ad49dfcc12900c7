"""The page of a sign-in link. To open it changes nothing, so that no preview or prefetch uses the link up; its button does."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.errors import HoldfastError

from .problems import response_of
from .sessions import SESSION_S, Sessions, cookie_of

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sign in to Holdfast</title>
<h1>Sign in to Holdfast</h1>
<p>This link works once. Whoever signs in may do everything here.</p>
<form method="post"><button autofocus>Sign in</button></form>
</html>
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # with none at all, browsers would not say of the form where it comes from
}


def route_of(sessions: Sessions) -> Route:
    """The route of sign-in links: `GET` shows a page, `POST` signs in."""

    async def sign_in(request: Request) -> Response:
        token = request.path_params["token"]
        try:
            if request.method != "POST":
                sessions.check_link(token)
                return HTMLResponse(PAGE, headers=HEADERS)
            value = await sessions.redeemed(token)
        except HoldfastError as refusal:
            return response_of(refusal)
        arrived = request.state.arrived
        return _signed_in(value, scheme=arrived.scheme, host=arrived.host, root=request.scope.get("root_path", ""))

    return Route("/signin/{token}", sign_in, methods=["GET", "POST"])


def _signed_in(value: str, *, scheme: str, host: str, root: str) -> Response:
    """The cookie, and the way to the first page."""
    response = RedirectResponse(f"{root}/", status_code=303)
    response.set_cookie(
        cookie_of(scheme, host), value, max_age=SESSION_S, path="/", secure=scheme == "https", httponly=True, samesite="lax"
    )
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
