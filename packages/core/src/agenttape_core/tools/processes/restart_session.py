"""Opens the session of a process by being imported: only when the program that begins again has been imported.

Its recording was made around the run alone. In a session that were open while the module of the program is imported,
what that draws and reads would not be as recorded.
"""
