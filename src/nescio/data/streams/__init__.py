"""Inputs of any size in bounded memory: files and folders, a block at a time."""

from nescio.data.streams.opening import columns_of as columns_of
from nescio.data.streams.opening import is_streamed as is_streamed
from nescio.data.streams.opening import is_table as is_table
from nescio.data.streams.opening import open_stream as open_stream
from nescio.data.streams.opening import row_of as row_of
from nescio.data.streams.stream import Stream as Stream
from nescio.data.streams.stream import array_stream as array_stream
