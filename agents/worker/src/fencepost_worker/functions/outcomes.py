"""What a function raises to end its attempt otherwise than with a result."""

from fencepost_worker.lease import Ended

FAILED = "FAILED"


class Defer(Exception):
    """Give the job back: it cannot be done now, and did not fail.

    It is claimed again after `retry_after` seconds, 1 to 86 400. The attempt does not count unless
    a model call of it cost something; contract, section 1.
    """

    def __init__(self, reason: str = "it cannot be done now", *, retry_after: float) -> None:
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(reason)


class Fail(Exception):
    """End the attempt as failed, for a reason that the function knows.

    With `retryable` another attempt follows while the job has one left. An exception of another
    class ends it as failed too, under the code `FUNCTION_RAISED`, retryable.
    """

    def __init__(
        self, message: str = "the work failed", *, code: str = FAILED, retryable: bool = False
    ) -> None:
        self.message = message
        self.code = code
        self.retryable = retryable
        super().__init__(message)


class Escalate(Exception):
    """Ask a person: the job waits for an answer, and comes again with it as `job.answer`."""

    def __init__(self, question: str, *, notify_to: str = "") -> None:
        self.question = question
        self.notify_to = notify_to
        super().__init__(question)


class AttemptOver(BaseException):
    """The attempt is not this worker's any more: stop, nobody takes what you would return.

    No `Exception`, as a cancellation is none: a function that carries on after any error is not
    to carry on after this one.
    """

    def __init__(self, why: Ended) -> None:
        self.why = why
        super().__init__(why.value)
