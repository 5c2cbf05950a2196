"""How a template uses `add_generation_prompt`: whether marks alone can tell what the switch adds."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from spanparse.rendering.unshown import within

SWITCH = "add_generation_prompt"


def asks_for_generation(test: nodes.Node) -> bool:
    """Whether a condition can only hold when a generation prompt was asked for, as far as its form shows."""
    if is_name(test, SWITCH):
        return True
    if isinstance(test, nodes.And):
        return asks_for_generation(test.left) or asks_for_generation(test.right)
    if isinstance(test, nodes.Or):
        return asks_for_generation(test.left) and asks_for_generation(test.right)
    if isinstance(test, nodes.Compare):
        return is_name(test.expr, SWITCH) and all(
            op.op == "eq" and isinstance(op.expr, nodes.Const) and op.expr.value is True for op in test.ops
        )
    if isinstance(test, nodes.Test):
        return test.name == "true" and is_name(test.node, SWITCH)
    if isinstance(test, nodes.Filter):
        return test.name == "default" and test.node is not None and is_name(test.node, SWITCH)
    return False


def is_name(node: nodes.Node, name: str) -> bool:
    """Whether `node` is the variable `name`."""
    return isinstance(node, nodes.Name) and node.name == name


def other_uses(template: nodes.Node) -> Iterator[nodes.Name]:
    """The places in `template` where the switch may do more than add the text that stands directly under it.

    An `else`, a negation or an assignment may take text away as well, or add some elsewhere, and so may what is set
    under the switch and read elsewhere; a value that is put out first under it may be a message's. What a switch adds
    that is asked for there takes a second render to tell. A default for a caller that does not pass the switch is no
    such use.
    """
    yield from _uses(template, template)


def _uses(node: nodes.Node, template: nodes.Node) -> Iterator[nodes.Name]:
    children = node.iter_child_nodes()
    if isinstance(node, nodes.If):
        if _is_default(node):
            return
        adds = asks_for_generation(node.test) and not node.elif_ and not node.else_
        if adds and not _leaks(node.body, template) and not _begins_with_value(node.body):
            children = iter(node.body)
    if isinstance(node, nodes.CondExpr) and asks_for_generation(node.test) and _is_empty(node.expr2):
        children = iter((node.expr1,))
    if isinstance(node, nodes.Name) and node.name == SWITCH:
        yield node
    for child in children:
        yield from _uses(child, template)


def _leaks(body: list[nodes.Node], template: nodes.Node) -> bool:
    """Whether something is set in `body` that is read outside of it."""
    names: set[str] = set()
    for node in body:
        names.update(name.name for name in within(node, nodes.Name) if name.ctx == "store")
        names.update(name.name for name in within(node, nodes.NSRef))
    inside = [name.name for node in body for name in within(node, nodes.Name) if name.ctx == "load"]
    everywhere = [name.name for name in template.find_all(nodes.Name) if name.ctx == "load"] if names else []
    return any(everywhere.count(name) > inside.count(name) for name in names)


def _begins_with_value(body: list[nodes.Node]) -> bool:
    """Whether what `body` puts out may begin with a value that stands somewhere in the request."""
    for node in body:
        if isinstance(node, nodes.If) and any(map(_begins_with_value, (node.body, node.else_))):
            return True
        for child in node.nodes if isinstance(node, nodes.Output) else ():
            first = _first_of(child)
            if isinstance(first, nodes.TemplateData):
                if first.data.strip():
                    return False
            elif not (isinstance(first, nodes.Const) and not str(first.value).strip()):
                return isinstance(first, (nodes.Name, nodes.Getattr, nodes.Getitem))
    return False


def _first_of(node: nodes.Node) -> nodes.Node:
    """What a text that `node` gives begins with, filters aside."""
    while True:
        if isinstance(node, nodes.Add):
            node = node.left
        elif isinstance(node, nodes.Concat):
            node = node.nodes[0]
        elif isinstance(node, nodes.Filter) and node.node is not None:
            node = node.node
        else:
            return node


def _is_empty(node: nodes.Node | None) -> bool:
    """Whether an `else` adds nothing."""
    return node is None or (isinstance(node, nodes.Const) and not node.value)


def _is_default(node: nodes.If) -> bool:
    """`{% if add_generation_prompt is not defined %}{% set add_generation_prompt = false %}{% endif %}`."""
    test = node.test.node if isinstance(node.test, nodes.Not) else node.test
    checks = isinstance(test, nodes.Test) and test.name in ("defined", "undefined") and is_name(test.node, SWITCH)
    return checks and all(
        isinstance(child, nodes.Assign) or (isinstance(child, nodes.Output) and _is_blank(child)) for child in node.body
    )


def _is_blank(output: nodes.Output) -> bool:
    return all(isinstance(child, nodes.TemplateData) and not child.data.strip() for child in output.nodes)
