"""Tests of the room ``observe``."""
