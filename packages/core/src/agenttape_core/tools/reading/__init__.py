"""Reading a finished cassette: its calls as a tree, its answers, its times, its costs."""
