"""smolagents."""

from smolagents import OpenAIModel, ToolCallingAgent, tool


def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: The city.
    """
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    model = OpenAIModel("gpt-5-mini")
    agent = ToolCallingAgent([tool(get_weather)], model, instructions=instructions)
    return agent.run("What is the weather in Paris?")


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
