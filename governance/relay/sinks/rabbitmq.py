"""The RabbitMQ sink: confirmed, mandatory, persistent publishing to a topic exchange.

A confirm says that the broker holds the message, not that anybody has read it.  A message that no
queue takes is confirmed too; `mandatory` returns it first.

Source: RabbitMQ documentation, "Consumer Acknowledgements and Publisher Confirms".
"""

from __future__ import annotations

import contextlib
from functools import partial

import pika
from django.conf import settings
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    StreamLostError,
    UnroutableError,
)

from governance.relay.sinks import Destination, FactRefused, Message, SinkAway, SinkSilent

NAME = "rabbitmq"
CONTENT_TYPE = "application/cloudevents+json"
CONNECT_TIMEOUT_SECONDS = 5
CLOSE_TIMEOUT_SECONDS = 1
#: AMQP reply code of a broker that is being shut down.
CONNECTION_FORCED = 320
PERSISTENT = pika.DeliveryMode.Persistent


def destination() -> Destination:
    """Return the broker of the settings."""
    parameters = pika.URLParameters(settings.BROKER_URL)
    address = f"{parameters.host}:{parameters.port}{parameters.virtual_host}"
    connect = partial(
        RabbitMQ,
        url=settings.BROKER_URL,
        exchange=settings.BROKER_EXCHANGE,
        queue=settings.BROKER_QUEUE,
        queue_type=settings.BROKER_QUEUE_TYPE,
        confirm_timeout_seconds=settings.BROKER_CONFIRM_TIMEOUT_SECONDS,
    )
    return Destination(NAME, address, connect)


def routing_key(message: Message) -> str:
    """Return `<kind of stream>.<type>`, as `job.dev.fencepost.job.completed`."""
    return f"{message.stream.partition(':')[0]}.{message.type}"


class RabbitMQ:
    """A channel in confirm mode. Declares the exchange, and the queue if one is named."""

    def __init__(
        self,
        *,
        url: str,
        exchange: str,
        queue: str,
        queue_type: str,
        confirm_timeout_seconds: int,
    ) -> None:
        self._exchange = exchange
        self._timeout_seconds = confirm_timeout_seconds
        parameters = pika.URLParameters(url)
        parameters.socket_timeout = CONNECT_TIMEOUT_SECONDS
        parameters.blocked_connection_timeout = confirm_timeout_seconds
        # A broker that hangs without closing is noticed by its silence.
        parameters.heartbeat = confirm_timeout_seconds
        try:
            self._connection = pika.BlockingConnection(parameters)
            self._channel = self._open_channel(queue, queue_type)
            # The public timers of a blocking connection do not run while it waits for a confirm.
            self._loop = self._connection._impl.ioloop
        except (AMQPError, OSError) as error:
            raise SinkAway(f"{type(error).__name__}: {error}") from error

    def _open_channel(self, queue: str, queue_type: str) -> BlockingChannel:
        channel = self._connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare(self._exchange, exchange_type="topic", durable=True)
        if queue:
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": queue_type})
            channel.queue_bind(queue, self._exchange, routing_key="#")
        return channel

    def send(self, message: Message) -> None:
        """Publish one message and wait for its confirm; see `Sink.send`."""
        properties = pika.BasicProperties(
            content_type=CONTENT_TYPE,
            delivery_mode=PERSISTENT,
            message_id=message.message_id,
            type=message.type,
        )
        alarm = self._loop.call_later(self._timeout_seconds, self._give_up)
        try:
            self._channel.basic_publish(
                self._exchange, routing_key(message), message.body, properties, mandatory=True
            )
        except UnroutableError as error:
            raise FactRefused("no queue takes it (unroutable)") from error
        except NackError as error:
            raise FactRefused("the broker refused it (nack)") from error
        except ChannelClosedByBroker as error:
            self.close()
            raise FactRefused(f"the broker closed the channel: {error.reply_text}") from error
        except ConnectionClosedByBroker as error:
            if error.reply_code == CONNECTION_FORCED:
                raise SinkAway(f"the broker is going away: {error.reply_text}") from error
            raise FactRefused(f"the broker hung up on it: {error.reply_text}") from error
        except (TimeoutError, StreamLostError) as error:
            raise SinkSilent(f"{type(error).__name__}: {error}") from error
        except (AMQPError, OSError) as error:
            raise SinkAway(f"{type(error).__name__}: {error}") from error
        finally:
            self._loop.remove_timeout(alarm)

    def _give_up(self) -> None:
        # Raised out of the loop that waits: heartbeats alone would let it wait on.
        raise TimeoutError("no answer in time")

    @property
    def usable(self) -> bool:
        return bool(self._channel.is_open)

    def keep(self) -> None:
        """Answer the broker's heartbeats; see `Sink.keep`."""
        try:
            self._connection.process_data_events(time_limit=0)
        except (AMQPError, OSError) as error:
            raise SinkAway(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the connection, whatever state it is in; a broker that hangs is hung up on."""
        try:
            if self._connection.is_open:
                self._loop.call_later(CLOSE_TIMEOUT_SECONDS, self._give_up)
                self._connection.close()
        except (AMQPError, OSError):
            self._hang_up()

    def _hang_up(self) -> None:
        if (transport := self._connection._impl._transport) is None:
            return
        transport.abort()
        # The socket is closed when the loop comes round.
        with contextlib.suppress(AMQPError, OSError):
            self._connection._flush_output()
