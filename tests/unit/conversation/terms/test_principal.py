"""A principal has a name, roles and a proof; what is no name is refused by its field."""

import pytest

from holdfast.conversation import Principal, Proof
from holdfast.errors import InvalidInput


def test_a_principal_has_a_name_roles_and_how_it_was_proven():
    assert Principal("ana").proof is Proof.STATED
    ana = Principal("ana@shop.example", roles=["finance", "on call"])
    assert (ana.id, ana.roles) == ("ana@shop.example", ("finance", "on call"))
    assert Principal("7", proof="oidc").proof is Proof.OIDC
    assert Principal("a" * 200).id


@pytest.mark.parametrize("name", ["", " ana", "ana ", "a\nb", "a\x1b[2Jb", "\ud800", "a" * 201, None, 7])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidInput) as refused:
        Principal(name)
    assert refused.value.field == "principal.id"
    with pytest.raises(InvalidInput) as refused:
        Principal("ana", roles=[name])
    assert refused.value.field == "principal.roles"


@pytest.mark.parametrize("roles", ["finance", 7, ["r"] * 65])
def test_roles_are_a_bounded_list(roles):
    with pytest.raises(InvalidInput):
        Principal("ana", roles=roles)


HIDDEN = ["ana\u202egro.live", "a\u200bna", "ana\u2066", "ana\ufeff", "ana\U000e0041", "ana\u3164"]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_name_from_outside_shows_whole_and_one_in_a_log_is_read_as_it_is(name):
    for principal in (Principal(name), Principal("ana", roles=["finance", name])):
        with pytest.raises(InvalidInput, match="does not show whole") as refused:
            principal.check_visible()
        assert str(refused.value).isascii()
    for seen in ("ana@shop.example", "Zo\u00eb", "\u0646\u0627\u0645\u0647\u200c\u0647\u0627", "\u5f20\u4f1f", "on call"):
        assert Principal(seen).check_visible().id == seen
