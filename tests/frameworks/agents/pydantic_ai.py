"""PydanticAI."""

from pydantic_ai import Agent


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    agent = Agent("openai-chat:gpt-5-mini", instructions=instructions, tools=[get_weather])
    return agent.run_sync("What is the weather in Paris?").output


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
