"""CrewAI."""

from crewai import Agent
from crewai.tools import tool


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    agent = Agent(
        role="weather reporter",
        goal=instructions,
        backstory="You know the weather.",
        llm="openai/gpt-5-mini",
        tools=[tool("get_weather")(get_weather)],
    )
    return agent.kickoff("What is the weather in Paris?").raw


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
