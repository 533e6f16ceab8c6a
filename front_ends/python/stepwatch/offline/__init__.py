"""Tools that read the output files of a run.

`stepwatch.csv2tb`, `stepwatch.csv2db` and `stepwatch.anomaly_processor` are their public names.
"""
