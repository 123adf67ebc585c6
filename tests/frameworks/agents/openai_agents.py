"""OpenAI Agents SDK."""

from agents import Agent, Runner, function_tool


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    agent = Agent("weather", instructions=instructions, tools=[function_tool(get_weather)], model="gpt-5-mini")
    return Runner.run_sync(agent, "What is the weather in Paris?").final_output


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
