"""`stepwatch.csv2db`, under the name of its module in msProbe."""

from stepwatch.csv2db import CSV2DBConfig, csv2db, import_data

__all__ = ["CSV2DBConfig", "csv2db", "import_data"]
