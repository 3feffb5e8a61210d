"""The list of all routers."""

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
