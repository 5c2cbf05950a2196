"""Shapes: which roles follow each other."""

from __future__ import annotations

from tests.audit.shapes import building as make
from tests.audit.shapes.building import Conversation, shape
from tests.audit.vocabulary import Words


@shape("user")
def _one_user(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w)])


@shape("system, user")
def _system_user(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.user(w)])


@shape("turns")
def _turns(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.assistant(w), make.user(w), make.assistant(w), make.user(w)])


@shape("system, turns")
def _system_turns(w: Words, template: str) -> Conversation:
    return Conversation(
        [make.system(w), make.user(w), make.assistant(w), make.user(w), make.assistant(w), make.user(w)]
    )


@shape("system in the middle")
def _system_in_the_middle(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.assistant(w), make.system(w), make.user(w)])


@shape("two systems")
def _two_systems(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.system(w), make.user(w), make.assistant(w), make.user(w)])


@shape("system alone")
def _system_alone(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w)])


@shape("developer")
def _developer(w: Words, template: str) -> Conversation:
    return Conversation([make.message("developer", w.text()), make.user(w), make.assistant(w), make.user(w)])


@shape("system, developer")
def _system_developer(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.message("developer", w.text()), make.user(w)])


@shape("two users")
def _two_users(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.user(w), make.assistant(w), make.user(w), make.user(w)])


@shape("two assistants")
def _two_assistants(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.assistant(w), make.assistant(w), make.user(w)])


@shape("assistant last")
def _assistant_last(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.assistant(w), make.user(w), make.assistant(w)])


@shape("assistant first")
def _assistant_first(w: Words, template: str) -> Conversation:
    return Conversation([make.assistant(w), make.user(w), make.assistant(w), make.user(w)])
