"""`slipway.guard`: what a training loop calls once a step, so that trouble on one rank is known on all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from slipway.agreement.group import SideGroup, host_name, ranks
from slipway.batches.now import NOW
from slipway.errors import SlipwayError
from slipway.health.exhaustion import exhaustion
from slipway.health.losses import Loss, not_finite
from slipway.health.splitting import Splitting
from slipway.health.steps import MOST, AgreedSteps, StepBlock
from slipway.health.watch import Watch

NOT_FINITE = ("stop", "skip", "restore")
OUT_OF_MEMORY = ("stop", "split")

MOST_IN_A_ROW = 20
"""Skipped steps, or restores, without one good step between them, after which the training is ended."""


def guard(
    model: Any = None,
    optimizer: Any = None,
    *,
    not_finite: str = "stop",
    restore: Callable[[], object] | None = None,
    out_of_memory: str = "stop",
) -> TrainingGuard:
    """A guard of this training; all ranks make one, and call it once a step.

    `not_finite` is for a loss that is nan or infinite on any rank: "stop" raises SlipwayError (NUM001) on
    all, "skip" leaves out the optimizer's step on all, "restore" calls `restore` on all, which goes back to
    the last checkpoint. `out_of_memory`: "stop" raises SlipwayError (MEM001, MEM002 for host memory) on the
    rank, "split" computes the batch in halves on all. Raises ValueError or TypeError for what cannot be.
    """
    if not_finite not in NOT_FINITE:
        raise ValueError(f"not_finite={not_finite!r} is not one of {', '.join(NOT_FINITE)}")
    if out_of_memory not in OUT_OF_MEMORY:
        raise ValueError(f"out_of_memory={out_of_memory!r} is not one of {', '.join(OUT_OF_MEMORY)}")
    if (restore is not None) != (not_finite == "restore"):
        raise ValueError('restore= and not_finite="restore" belong together: what goes back to a checkpoint')
    return TrainingGuard(model, optimizer, not_finite, restore, out_of_memory)


class TrainingGuard:
    """As a context manager it also looks at the last steps, when its block ends without an exception."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        action: str,
        restore: Callable[[], object] | None,
        out_of_memory: str,
    ) -> None:
        self.optimizer = optimizer
        self._action, self._restore = action, restore
        self._agreement = SideGroup()
        self._hosts = [str(host) for host in self._agreement.gather(host_name())]
        self._watch = Watch(model, self._hosts, self._agreement.rank)
        # Whoever goes on after a broken step wants to know of it at once; an end may come some steps later.
        most = MOST if action == "stop" else 1
        self._steps = AgreedSteps(self._agreement, self._watch.measured, most)
        self._splitting = Splitting(model, self._agreement, self._hosts) if out_of_memory == "split" else None
        self._step = 0
        self._in_a_row = 0

    def step(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
        """A whole step: zero_grad, `loss_of(batch)`, backward, the check, the optimizer's step.

        Returns the loss, detached. `loss_of` makes the forward and returns the loss; with
        out_of_memory="split" it may be called with parts of the batch. Raises as `check`; SlipwayError
        (MEM001, MEM002) where memory ran out; what `loss_of` raises.
        """
        if self.optimizer is None:
            raise TypeError("step() needs the optimizer: slipway.guard(model, optimizer)")
        if self._splitting is not None:
            loss = self._splitting.run(batch, loss_of, self._step + 1, self.optimizer.zero_grad)
        else:
            loss = self._whole(batch, loss_of)
        if self.check(loss):
            self.optimizer.step()
        return loss

    def check(self, loss: Any) -> bool:
        """For a loop of one's own: after the backward, before the optimizer's step, once a step.

        Returns whether the optimizer is to make its step. Raises SlipwayError (NUM001) on all ranks where a
        loss was not finite and the action is "stop" (steps that are quicker than `slipway.health.steps.DELAY`
        are told of by several at once, so up to MOST + 1 steps later), or where the others did not help
        MOST_IN_A_ROW times.
        """
        self._see_all_ranks()
        self._step += 1
        if self._action == "skip":
            return self._judge(self._steps.now(Loss(loss)))
        return self._judge_all(self._steps.later(Loss(loss)))

    def settle(self) -> bool:
        """Wait for what all ranks found so far, as before a save; whether every loss was finite.

        Raises as `check`.
        """
        return self._judge_all(self._steps.rest())

    def __enter__(self) -> TrainingGuard:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.settle()

    def _whole(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
        self.optimizer.zero_grad()
        try:
            loss = loss_of(batch)
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            out = exhaustion(error)
            if out is None:
                raise
            rank = self._agreement.rank
            raise SlipwayError(
                out.code,
                f"rank {rank} on {self._hosts[rank]} {out.text()} in step {self._step + 1}. A smaller batch "
                'with more accumulation needs less; out_of_memory="split" halves it on all ranks by itself',
            ) from error
        return loss.detach()

    def _judge_all(self, seen: list[StepBlock]) -> bool:
        sound = True
        for block in seen:
            if not self._judge(block):
                sound = False
                if self._restore is not None:
                    # The later ones were computed with weights that are gone.
                    break
        return sound

    def _judge(self, seen: StepBlock) -> bool:
        """What follows of steps that all ranks have told of; whether the training may go on from them."""
        self._watch.look(seen)
        first = seen.not_finite()
        if first is None:
            self._in_a_row = 0
            return True
        found = not_finite(*first, self._hosts)
        if self._action == "stop":
            raise SlipwayError("NUM001", f"{found}: from there on the weights are lost, so training ends")
        self._in_a_row += 1
        done = "the step is skipped" if self._action == "skip" else "back to the last checkpoint"
        if self._in_a_row > MOST_IN_A_ROW:
            raise SlipwayError(
                "NUM001", f"{found}, after {MOST_IN_A_ROW} times in a row in which {done} did not help"
            )
        if self._agreement.rank == 0:
            print(f"slipway: NUM001 {found}: {done} on all ranks", file=sys.stderr, flush=True)
        if self._restore is not None:
            # Steps that were computed with the broken weights count no more, and all ranks forget the same.
            self._steps.rest()
            self._restore()
        return False

    def _see_all_ranks(self) -> None:
        """Raises RuntimeError where this guard cannot know of all ranks."""
        if NOW.joining:
            raise RuntimeError(
                'guard and even_batches(mode="join") do not go together: a rank that has left does not tell '
                'of its loss, and the others would wait for it. Use mode="pad" or mode="drop"'
            )
        if self._agreement.world_size == 1 and ranks()[1] > 1:
            raise RuntimeError(
                "slipway.guard was made before the process group, so it knows of this rank alone. Call it "
                "after init_process_group"
            )
