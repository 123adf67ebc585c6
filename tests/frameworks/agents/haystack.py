"""Haystack."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    model = OpenAIChatGenerator(model="gpt-5-mini")
    agent = Agent(chat_generator=model, tools=[create_tool_from_function(get_weather)], system_prompt=instructions)
    return agent.run([ChatMessage.from_user("What is the weather in Paris?")])["last_message"].text


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
