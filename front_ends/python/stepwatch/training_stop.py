"""The end of a run that the config requests."""

STRUCTURE_EXIT = "exit after first monitor step when print model struct"
COMMUNICATION_EXIT = "exit after first step when print cc stack"


class TrainingStopRequested(Exception):
    """Ends the run after print_struct or cc_log_only, as in msProbe; users may catch it as Exception."""
