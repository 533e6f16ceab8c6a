"""The tools that read the files of a run afterwards.

`stepwatch.csv2tb`, `stepwatch.csv2db` and `stepwatch.anomaly_processor` are their public names.
"""
