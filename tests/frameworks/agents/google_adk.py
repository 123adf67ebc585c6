"""Google ADK."""

import asyncio

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


async def ask(instructions: str) -> str:
    agent = Agent(name="weather", model="gemini-2.5-flash", instruction=instructions, tools=[get_weather])
    events = await InMemoryRunner(agent).run_debug("What is the weather in Paris?", quiet=True)
    return events[-1].content.parts[0].text


def main() -> None:
    print(asyncio.run(ask("Answer in one sentence.")))
    print(asyncio.run(ask("Answer in French.")))
