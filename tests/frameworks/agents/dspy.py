"""DSPy."""

import dspy


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"looking up {city}")
    return f"{city}: sunny"


def ask(instructions: str) -> str:
    dspy.configure(lm=dspy.LM("openai/gpt-5-mini", cache=False))
    agent = dspy.ReAct(dspy.Signature("question -> answer", instructions), tools=[get_weather])
    return agent(question="What is the weather in Paris?").answer


def main() -> None:
    print(ask("Answer in one sentence."))
    print(ask("Answer in French."))
