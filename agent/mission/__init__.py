"""Directive, mission file or flags -> intent, claims and what found no place. Pure: the vocabulary is an argument."""

from recon.agent.mission.additions import with_additions, with_bindings
from recon.agent.mission.arguments import read_arguments
from recon.agent.mission.directive import triage
from recon.agent.mission.identity import directive_drafts, directive_subject, mission_key
from recon.agent.mission.mission_file import MissionFile, load_mission, mission_schema, triage_file
from recon.agent.mission.own_checks import Ground, Rules, check_ground
from recon.agent.mission.sentence import sentence
from recon.agent.mission.vocabulary import Action, Term, Vocabulary

__all__ = [
    "Action", "Ground", "MissionFile", "Rules", "Term", "Vocabulary", "check_ground", "directive_drafts", "directive_subject", "load_mission", "mission_key",
    "mission_schema", "read_arguments", "sentence", "triage", "triage_file", "with_additions", "with_bindings",
]  # fmt: skip
