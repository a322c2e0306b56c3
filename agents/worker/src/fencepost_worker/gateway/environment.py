"""The variables by which clients of providers find the gateway by themselves."""

#: Of an attempt, and of who stands outside of all: what the SDKs of the two faces read.
OPENAI_ADDRESS, OPENAI_KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
ANTHROPIC_ADDRESS, ANTHROPIC_KEY = "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"
GATEWAY_ADDRESS = "FENCEPOST_GATEWAY_URL"


def client_variables(address: str, key: str, *, azure: bool) -> dict[str, str]:
    """Return what SDKs read: where models are called, and by which key.

    :param azure: those of Azure's client, too. OpenAI's SDK takes them beside its own for
        ambiguous where no client is made (`openai.chat...`), unless it is told which it is.
    """
    found = {
        OPENAI_ADDRESS: f"{address}/v1",
        OPENAI_KEY: key,
        ANTHROPIC_ADDRESS: address,
        ANTHROPIC_KEY: key,
    }
    if azure:
        found |= {
            "AZURE_OPENAI_ENDPOINT": address,
            "AZURE_OPENAI_API_KEY": key,
            "OPENAI_API_TYPE": "openai",
        }
    return found
