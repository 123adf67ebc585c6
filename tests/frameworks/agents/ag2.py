"""AG2."""

import asyncio

from ag2 import Agent
from ag2.config import OpenAIConfig


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


async def ask(instructions: str) -> str:
    agent = Agent("weather", instructions, config=OpenAIConfig(model="gpt-5-mini"), tools=[get_weather])
    return (await agent.ask("What is the weather in Paris?")).body


def main() -> None:
    print(asyncio.run(ask("Answer in one sentence.")))
    print(asyncio.run(ask("Answer in French.")))
