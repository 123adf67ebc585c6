"""The order of event loops and of threads: recorded, and made to happen again.

`schedule` and `line` keep the order of event loops, as deliveries between steps (decision 0014); `taking_turns` and
`strands` that of threads, as gates (0015). `cancellation` and `giving_up` wait until a program cancels again what it
had cancelled. `loops`, `strand_seams` and `futures_in_order` are the places of Python's own where all of it takes hold.
"""
