"""A plan in words."""

from __future__ import annotations

from planner.outcome import Plan


def explain(plan: Plan) -> str:
    """One line for each thing that the plan does, in order, then what it is expected to be worth."""
    evaluated = sum(step.end - step.begin for step in plan.steps)
    lines = [
        f"{plan.prompt_tokens:,} tokens on {plan.memory} memory, policy {plan.policy}: evaluate {evaluated:,}, "
        f"{plan.breaks} breaks and {len(plan.saves)} saves ({plan.overhead_seconds:.3f} s)"
    ]
    if plan.restore:
        lines.append(f"restore  {plan.restore.offset:>9,}  {plan.restore.source}: {plan.restore.why}")
    else:
        lines.append("start            0  nothing is shared with a state that is left")
    lines += [
        f"evict    {eviction.offset:>9,}  {eviction.reason}" for eviction in plan.evict if eviction.before is None
    ]
    for step in plan.steps:
        lines += [
            f"evict    {eviction.offset:>9,}  {eviction.reason}"
            for eviction in plan.evict
            if eviction.before == step.end
        ]
        what = "save" if step.save else "break" if step.end < plan.prompt_tokens else "end"
        lines.append(f"{what:<8} {step.end:>9,}  {step.kind}: {step.reason}")
    lines.append(
        f"expected replay {plan.expected_replay_tokens:,.1f} tokens ({plan.expected_replay_seconds:.3f} s) unless the "
        f"next prompt extends this one; at best {plan.optimal_replay_tokens:,.1f} ({plan.optimal_replay_seconds:.3f} s)"
    )
    if plan.baselines:
        others = sorted(plan.baselines.items(), key=lambda item: (item[1], item[0]))
        lines.append("instead: " + ", ".join(f"{name} {tokens:,.1f}" for name, tokens in others))
    return "\n".join(lines)
