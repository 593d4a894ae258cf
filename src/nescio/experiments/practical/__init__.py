"""The toy worlds of the deep-ensembles practical: a file a part of the experiment."""
