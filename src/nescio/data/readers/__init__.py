"""Inputs of any size in bounded memory: files and folders, a block at a time."""

from nescio.data.readers.arrays import demand as demand
from nescio.data.readers.arrays import read_array as read_array
from nescio.data.readers.arrays import read_arrays as read_arrays
from nescio.data.readers.csv import csv_words as csv_words
from nescio.data.readers.open_stream import columns_of as columns_of
from nescio.data.readers.open_stream import is_streamed as is_streamed
from nescio.data.readers.open_stream import is_table as is_table
from nescio.data.readers.open_stream import is_there as is_there
from nescio.data.readers.open_stream import open_stream as open_stream
from nescio.data.readers.open_stream import row_of as row_of
from nescio.data.readers.stream import Stream as Stream
from nescio.data.readers.stream import array_stream as array_stream
from nescio.data.readers.stream import chosen_columns as chosen_columns
from nescio.data.readers.stream import listed as listed
from nescio.data.readers.ts import is_ts as is_ts
