"""The conformance suite: every check that an integration must keep."""

from __future__ import annotations

from agenttape_core.testing.bench import Bench
from agenttape_core.testing.checks import answers, files, sequences, sessions


class IntegrationConformance(Bench):
    """The promises of every integration, as tests. Derive from it, say how yours is made, taped and called, run pytest.

    `make` and `tape` must be given, and `shapes` unless it is a plain function; see `Hooks` for the rest. Each `test_*`
    method is one check. Checks of something that an integration does not have (a shape, ambience, token counts) are
    skipped, with the reason. Pytest is not needed: `run_conformance` runs the checks too.
    """

    test_replayed_answer_equals_the_recorded_one = answers.replayed_answer_equals_the_recorded_one
    test_recording_makes_the_real_call_once = answers.recording_makes_the_real_call_once
    test_replay_never_makes_the_real_call = answers.replay_never_makes_the_real_call
    test_one_call_is_one_interaction = answers.one_call_is_one_interaction
    test_shapes_answer_each_other = answers.shapes_answer_each_other
    test_replayed_objects_are_fresh = answers.replayed_objects_are_fresh
    test_what_the_caller_changes_is_not_recorded = answers.what_the_caller_changes_is_not_recorded
    test_raised_error_is_replayed = answers.raised_error_is_replayed
    test_replayed_chunks_equal_the_recorded_ones = answers.replayed_chunks_equal_the_recorded_ones
    test_stream_closed_early = answers.stream_closed_early
    test_stream_broken_midway = answers.stream_broken_midway

    test_equal_questions_get_their_answers_in_order = sequences.equal_questions_get_their_answers_in_order
    test_one_question_too_many_is_a_miss = sequences.one_question_too_many_is_a_miss
    test_equal_questions_in_threads = sequences.equal_questions_in_threads
    test_equal_questions_in_tasks = sequences.equal_questions_in_tasks
    test_cancelled_call_is_cancelled_again = sequences.cancelled_call_is_cancelled_again

    test_another_question_is_a_miss = sessions.another_question_is_a_miss
    test_another_setup_is_a_miss = sessions.another_setup_is_a_miss
    test_miss_passes_through_error_handlers = sessions.miss_passes_through_error_handlers
    test_eaten_miss_fails_the_session = sessions.eaten_miss_fails_the_session
    test_miss_explains_itself = sessions.miss_explains_itself
    test_outside_a_session_nothing_changes = sessions.outside_a_session_nothing_changes
    test_nested_sessions = sessions.nested_sessions
    test_two_sessions_at_once = sessions.two_sessions_at_once
    test_unused_interactions_are_reported = sessions.unused_interactions_are_reported
    test_automatic_session_tapes_the_original = sessions.automatic_session_tapes_the_original
    test_without_ambience_only_the_taped_take_part = sessions.without_ambience_only_the_taped_take_part
    test_taped_object_is_taped_once_in_an_automatic_session = (
        sessions.taped_object_is_taped_once_in_an_automatic_session
    )
    test_nothing_stays_patched = sessions.nothing_stays_patched

    test_interactions_are_well_formed = files.interactions_are_well_formed
    test_secrets_stay_out_of_the_files = files.secrets_stay_out_of_the_files
    test_ids_of_the_run_are_mapped = files.ids_of_the_run_are_mapped
    test_recording_again_changes_nothing = files.recording_again_changes_nothing
    test_order_of_completion_changes_nothing = files.order_of_completion_changes_nothing
    test_both_layouts_hold_the_same = files.both_layouts_hold_the_same
    test_usage_is_recorded = files.usage_is_recorded
    test_another_process_finds_the_recordings = files.another_process_finds_the_recordings
